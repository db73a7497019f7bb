"""The base phase of a micro model: it learns its task's corpus."""

from __future__ import annotations

import itertools
import shutil
from typing import Any

import torch
from torch.utils.data import Dataset, SequentialSampler
from transformers import TrainingArguments

from onelayer.config import Study
from onelayer.fingerprint import base_settings, digest
from onelayer.grid import BASE
from onelayer.manifest import Meter, write_manifest
from onelayer.model_settings import MicroModel
from onelayer.models import make_micro_model, make_micro_tokenizer, move_files
from onelayer.store import HISTORY, disk_errors, run_folder, work_folder, write_json
from onelayer.tasks import make_corpus
from onelayer.tasks.contract import Line
from onelayer.training import ResumableMixin, Workplace, WorkplaceCallback, run_trainer, use_threads

_IGNORED = -100  # the label that torch's cross-entropy leaves out


class _Lines(Dataset[dict[str, list[int]]]):
    """The corpus's first lines, as token ids and labels; only what the line says is learned, and its end."""

    def __init__(self, lines: list[Line], tokenizer: Any) -> None:
        vocabulary = tokenizer.get_vocab()
        end = tokenizer.eos_token_id
        self._rows = []
        for line in lines:
            ids = [vocabulary[character] for text, _ in line for character in text] + [end]
            learned = [is_learned for text, is_learned in line for _ in text] + [True]
            labels = [token if is_learned else _IGNORED for token, is_learned in zip(ids, learned, strict=True)]
            self._rows.append({"input_ids": ids, "labels": labels})

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> dict[str, list[int]]:
        return self._rows[index]


class _PretrainingTrainer(ResumableMixin):
    """Learns the lines in the order they were drawn."""

    def _get_train_sampler(self, train_dataset: Any = None) -> SequentialSampler:
        return SequentialSampler(self.train_dataset)


def _collate(rows: list[dict[str, list[int]]], pad_id: int) -> dict[str, torch.Tensor]:
    width = max(len(row["input_ids"]) for row in rows)
    ids = torch.full((len(rows), width), pad_id)
    labels = torch.full((len(rows), width), _IGNORED)
    for index, row in enumerate(rows):
        ids[index, : len(row["input_ids"])] = torch.tensor(row["input_ids"])
        labels[index, : len(row["labels"])] = torch.tensor(row["labels"])
    # Padding stands on the right, so causal attention needs no mask to keep it out of the answers.
    return {"input_ids": ids, "labels": labels}


def pretrain_base(study: Study, settings: MicroModel) -> None:
    """Make a micro model, teach it its task's corpus, and write it as a study's base, with its manifest.

    Raises UserError where the disk is full.
    """
    use_threads(study.resources.base_threads)
    folder = run_folder(study.name, BASE.name)
    payload = base_settings(study)
    recipe = settings.pretraining
    meter = Meter()
    workplace = Workplace(study.name, study.seed, BASE.name, digest(payload), study.resources.save_every_seconds)
    task = make_corpus(study)
    tokenizer = make_micro_tokenizer(task.alphabet, settings.context)
    model = make_micro_model(settings, tokenizer, workplace.seed("weights"))
    lines = list(itertools.islice(task.corpus(workplace.seed("corpus")), recipe.steps * recipe.batch_size))
    callback = WorkplaceCallback(workplace, meter, steps_per_rollout=1, watched="loss")
    trainer = _PretrainingTrainer(
        model=model,
        args=TrainingArguments(
            output_dir=str(workplace.folder),
            per_device_train_batch_size=recipe.batch_size,
            max_steps=recipe.steps,
            learning_rate=recipe.learning_rate,
            lr_scheduler_type="cosine",
            warmup_steps=recipe.warmup_steps,
            weight_decay=recipe.weight_decay,
            logging_steps=1,  # a mean over several steps would not survive a resume between them
            save_strategy="no",
            save_total_limit=2,
            report_to="none",
            disable_tqdm=True,
            use_cpu=not torch.cuda.is_available(),
            seed=workplace.seed("trainer"),
        ),
        train_dataset=_Lines(lines, tokenizer),
        data_collator=lambda rows: _collate(rows, tokenizer.pad_token_id),
        callbacks=[callback],
    )
    trainer.trained_names = frozenset(name for name, _ in model.named_parameters())
    run_trainer(trainer, workplace)

    partial = work_folder(study.name, BASE.name) / "folder"
    shutil.rmtree(partial, ignore_errors=True)
    with disk_errors(partial):
        model.cpu().save_pretrained(partial)
        tokenizer.save_pretrained(partial)
    files = move_files(partial, folder)
    history = [{"step": row["step"], "loss": row["loss"]} for row in trainer.state.log_history if "loss" in row]
    write_json(folder / HISTORY, history)
    write_manifest(
        folder,
        study.name,
        BASE.name,
        payload,
        [*files, folder / HISTORY],
        callback.wall_seconds,
        callback.peak_memory_bytes,
        {
            "path": str(folder),
            "parameters": sum(p.numel() for p in model.parameters()),
            "checkpoint_bytes": sum(path.stat().st_size for path in files if path.suffix == ".safetensors"),
        },
    )
    workplace.discard()
