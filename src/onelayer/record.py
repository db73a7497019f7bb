"""What DVC has recorded, and whether its cache holds it.

DVC takes a file of its cache for sound when the file is read-only, and ends a commit to a full disk with exit code 0
and a `dvc.lock` that names what it never stored. So what must be relied on is hashed here.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from onelayer.errors import UserError
from onelayer.store import replacing

LOCK = Path("dvc.lock")


@dataclass(frozen=True)
class Recorded:
    """One recorded file.

    Attributes:
        path: where it stands in the project, relative to its root.
        md5: the hash that DVC names it by; of a folder's list, with DVC's ``.dir`` behind it.
        cached: where DVC's cache keeps it.
    """

    path: Path
    md5: str
    cached: Path

    @property
    def is_list(self) -> bool:
        """Whether this is the list of a folder's files."""
        return self.md5.endswith(".dir")

    @property
    def sound(self) -> bool:
        """Whether the cache holds it as it was recorded."""
        return _has_md5(self.cached, self.md5)

    @property
    def in_place(self) -> bool:
        """Whether the project's file is the recorded one."""
        return _has_md5(self.path, self.md5)

    def drop_damaged(self) -> bool:
        """Remove it from the cache where it stands there with another content; tell whether it did."""
        if self.sound or not self.cached.exists():
            return False
        self.cached.unlink()
        return True

    def put_back(self) -> bool:
        """Copy the project's file into the cache, where it is the recorded one; tell whether it was.

        Raises UserError where the disk is full or refuses.
        """
        if self.is_list or not self.in_place:
            return False
        with replacing(self.cached) as temporary:
            shutil.copyfile(self.path, temporary)
        self.cached.chmod(0o444)  # as DVC keeps its own
        return True


@dataclass(frozen=True)
class Output:
    """One output of a stage, or a file added by hand.

    Attributes:
        stage: the stage's name, such as ``study@micro-math``.
        path: of the file or folder, relative to the project's root.
        files: all that is recorded of it; of a folder, its list first, and that alone where the cache lacks it.
    """

    stage: str
    path: Path
    files: tuple[Recorded, ...]

    @property
    def known(self) -> bool:
        """Whether it is known which files belong to it."""
        return not self.files[0].is_list or self.files[0].sound


def read_record(
    stages: Iterable[str] | None = None, *, fetch_lists: bool = False, remote: str | None = None
) -> list[Output]:
    """What `dvc.lock` (and every ``.dvc`` file) records, and where the cache keeps it.

    Args:
        stages: these only.
        fetch_lists: ask the remote for the lists of folders that the cache lacks; DVC's fetch leaves the list of a
            folder out where one file of it is missing.
        remote: which remote; DVC's default one where not given.

    Raises UserError outside a DVC project, or where DVC cannot read its files.
    """
    from dvc.exceptions import DvcException
    from dvc.repo import Repo
    from dvc_objects.errors import ObjectFormatError

    found = []
    wanted = None if stages is None else set(stages)
    try:
        with Repo() as repo:
            root, cache = Path(repo.root_dir), repo.cache.local
            for out in repo.index.outs:
                name = out.stage.addressing
                if not out.use_cache or not out.hash_info or (wanted is not None and name not in wanted):
                    continue
                path = Path(out.fs_path).relative_to(root)
                md5 = out.hash_info.value
                files = [Recorded(path, md5, Path(cache.oid_to_path(md5)))]
                if files[0].is_list and fetch_lists and not files[0].sound:
                    files[0].drop_damaged()
                    out.get_dir_cache(remote=remote)
                if files[0].is_list and files[0].sound:
                    files += [
                        Recorded(path.joinpath(*key), info.value, Path(cache.oid_to_path(info.value)))
                        for key, _, info in out.get_obj()
                    ]
                found.append(Output(name, path, tuple(files)))
    except (DvcException, ObjectFormatError) as error:
        raise UserError(f"DVC cannot read what it has recorded: {' '.join(str(error).split())}") from None
    return found


def unsound(outputs: Sequence[Output]) -> list[Recorded]:
    """What the cache lacks, or holds with another content."""
    return [file for output in outputs for file in output.files if not file.sound]


def _has_md5(path: Path, md5: str) -> bool:
    try:
        with path.open("rb") as handle:
            digest = hashlib.file_digest(handle, lambda: hashlib.md5(usedforsecurity=False))
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        return False
    return digest.hexdigest() == md5.removesuffix(".dir")
