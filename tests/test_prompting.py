"""One way to put a problem to the model and to end its answer, in training and in evaluation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tokenizers import processors
from transformers import Qwen3Config, Qwen3ForCausalLM

from conftest import TINY, deep_copy, write_params, write_study
from onelayer import evaluate, phases
from onelayer.base import base_manifest
from onelayer.config import Study, load_study
from onelayer.errors import UserError
from onelayer.fingerprint import base_settings, digest, evaluation_settings, training_settings
from onelayer.grid import BASE, all_runs, find_runs
from onelayer.model_settings import Chat
from onelayer.models import load_tokenizer, make_micro_tokenizer
from onelayer.prepare import read_problems
from onelayer.prompting import end_ids, prompt_tokens, stop_ids
from onelayer.records import read_records
from onelayer.rl import grpo
from onelayer.state import StudyState

TEMPLATE = (
    "<s>{% for m in messages %}"
    "{% if m['role'] == 'system' and m['content'] == '9' %}{{ raise_exception('no nine') }}{% endif %}"
    "{{ {'system': '+', 'user': '-'}[m['role']] + m['content'] }}"
    "{% endfor %}{% if add_generation_prompt %}={% endif %}"
)


def make_tokenizer(template: str | None = TEMPLATE) -> Any:
    """One token a character, and a begin token before every plain text, as Llama's tokenizer has it."""
    tokenizer = make_micro_tokenizer("0123456789=+-\n", 64)
    tokenizer.add_special_tokens({"bos_token": "<s>"})
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A $B", special_tokens=[("<s>", tokenizer.bos_token_id)]
    )
    tokenizer.chat_template = template
    return tokenizer


def text(tokenizer: Any, ids: list[int]) -> str:
    return "".join(tokenizer.convert_ids_to_tokens(ids))


def test_plain_prompts_begin_as_the_tokenizer_says() -> None:
    tokenizer = make_tokenizer()
    assert [text(tokenizer, ids) for ids in prompt_tokens(tokenizer, ["1+2=", "3"], None)] == ["<s>1+2=", "<s>3"]
    assert prompt_tokens(tokenizer, [], None) == prompt_tokens(tokenizer, [], Chat()) == []


def test_a_chat_begins_once_and_ends_where_the_models_turn_begins() -> None:
    tokenizer = make_tokenizer()
    assert text(tokenizer, prompt_tokens(tokenizer, ["1+2"], Chat())[0]) == "<s>-1+2="
    assert text(tokenizer, prompt_tokens(tokenizer, ["1+2"], Chat(system="7"))[0]) == "<s>+7-1+2="
    with pytest.raises(UserError, match="template refuses the messages: no nine"):
        prompt_tokens(tokenizer, ["1+2"], Chat(system="9"))
    with pytest.raises(UserError, match="expected a tokenizer with a chat template, found one without"):
        prompt_tokens(make_tokenizer(None), ["1+2"], Chat())


def test_stop_tokens_are_one_token_each() -> None:
    tokenizer = make_tokenizer()
    vocabulary = tokenizer.get_vocab()
    assert stop_ids(tokenizer, ["\n", "<pad>"]) == (vocabulary["\n"], vocabulary["<pad>"])
    for token in ("12", "x", "\n\n"):
        with pytest.raises(UserError, match=r"model\.stop\[1\]: expected one token"):
            stop_ids(tokenizer, ["\n", token])


def test_every_end_counts_once() -> None:
    tokenizer = make_tokenizer()
    model = Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=20, hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=1,
            num_key_value_heads=1, head_dim=8, bos_token_id=None, eos_token_id=[1, 5], pad_token_id=0,
        )
    )  # fmt: skip
    assert end_ids(model, tokenizer, ["\n"]) == (1, 5, tokenizer.get_vocab()["\n"])
    assert end_ids(model, tokenizer, ["3"]) == (1, 5)


def build(**model: Any) -> Study:
    settings = deep_copy(TINY)
    settings["model"] = {"kind": "folder", "path": "model", **model}
    settings["task"] = {"kind": "questions", "sources": dict.fromkeys(("train", "select", "report"), "rows.jsonl"),
                        "sizes": {"train": 20, "select": 4, "report": 6}, "prompt": "{question}="}  # fmt: skip
    settings["training"]["steps"] = 2
    settings["training"]["max_tokens"] = settings["evaluation"]["max_tokens"] = 6
    write_study("tiny", settings)
    return load_study("tiny")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_params(["tiny"])
    tokenizer = make_tokenizer()
    Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=len(tokenizer), hidden_size=16, intermediate_size=16, num_hidden_layers=2, num_attention_heads=2,
            num_key_value_heads=1, head_dim=8, bos_token_id=None, eos_token_id=1, pad_token_id=0,
        )
    ).save_pretrained("model")  # fmt: skip
    tokenizer.save_pretrained("model")
    rows = [{"question": f"{n}+{n}", "answer": str(2 * n)} for n in range(60)]
    Path("rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


@pytest.mark.parametrize("chat", [None, {"system": "7"}])
def test_training_and_evaluation_read_the_same_ids_and_stop_alike(
    project: Path, monkeypatch: pytest.MonkeyPatch, chat: dict[str, str] | None
) -> None:
    seen: dict[str, list[Any]] = {"train": [], "evaluate": []}
    watch = (
        ("train", grpo, "generate_in_batches", grpo.generate_in_batches),
        ("evaluate", evaluate, "generate", evaluate.generate),
    )
    for name, module, function, original in watch:

        def watched(
            model: Any,
            prompts: Any,
            decoding: Any,
            *rest: Any,
            generate: Any = original,
            name: str = name,
        ) -> Any:
            answers = generate(model, prompts, decoding, *rest)
            seen[name].append((prompts, decoding.end_ids, answers))
            return answers

        monkeypatch.setattr(module, function, watched)
    study = build(chat=chat, stop=["\n", "5"])
    phases.prepare_phase(study)
    phases.base_phase(study)
    runs = find_runs(study, ["layer-01-s0"])
    phases.train_phase(study, runs, None)
    phases.evaluate_phase(study, runs, None)
    tokenizer = load_tokenizer(base_manifest(study))
    frame = "<s>{}=" if chat is None else "<s>+7-{}=="
    for name, splits in (("train", ["train"]), ("evaluate", ["select", "report"])):
        problems = [problem for split in splits for problem in read_problems(study, split)]
        expected = {frame.format(problem.prompt.removesuffix("=")) for problem in problems}
        found = {text(tokenizer, list(prompt)) for prompts, _, _ in seen[name] for prompt in prompts}
        assert found
        assert found <= expected
        assert name == "train" or found == expected
        vocabulary = tokenizer.get_vocab()
        ends = {tokenizer.eos_token_id, vocabulary["\n"], vocabulary["5"]}
        assert all(set(end) == ends for _, end, _ in seen[name])
        answers = [answer for _, _, batch in seen[name] for answer in batch]
        assert all(not ends & set(answer[:-1]) for answer in answers)
        assert {vocabulary["\n"], vocabulary["5"]} <= {answer[-1] for answer in answers}
    records = read_records("tiny", "layer-01-s0")
    stopped = records[records["completion"].str.endswith("5")]
    assert len(stopped)
    assert not stopped["clipped"].any()


def test_each_setting_of_use_decides_training_and_evaluation_and_no_base(project: Path) -> None:
    def prints(**model: Any) -> tuple[str, ...]:
        study = build(**model)
        run = all_runs(study)[-1]
        payloads = base_settings(study), training_settings(study, run), evaluation_settings(study, run)
        return tuple(map(digest, payloads))

    plain = prints()
    assert prints(precision="float32", attention="sdpa", chat=None, stop=[]) == plain
    variants = [prints(**more) for more in (
        {"attention": "eager"}, {"chat": {}}, {"chat": {"system": "7"}}, {"stop": ["5"]}, {"precision": "bfloat16"}
    )]  # fmt: skip
    assert {one[0] for one in variants} == {plain[0]}
    for place in (1, 2):
        assert len({plain[place], *(one[place] for one in variants)}) == 6

    study = build(attention="eager")
    phases.base_phase(study)
    assert StudyState(study).training(BASE).done
    assert StudyState(build(chat={})).training(BASE).done


def test_settings_that_contradict_each_other(project: Path) -> None:
    for more, message in (
        ({"attention": "flash_attention_2"}, "attention flash_attention_2 needs precision bfloat16, found float32"),
        ({"stop": ["5", "5"]}, "expected each value once, found 5 more than once"),
        ({"stop": [""]}, r"model\.stop\[0\]: found ''"),
        ({"chat": {"tone": "kind"}}, r"model\.chat\.tone: unknown key"),
        ({"chat": True}, r"model\.chat: found True"),
    ):
        with pytest.raises(UserError, match=message):
            build(**more)
    settings = deep_copy(TINY)
    settings["model"] = {"kind": "folder", "path": "model", "chat": {}}
    settings["task"] = {"kind": "textworld-express", "sizes": TINY["task"]["sizes"]}
    write_study("tiny", settings)
    with pytest.raises(UserError, match=r"write the chat's turn marks into task\.prompt and task\.turn instead"):
        load_study("tiny")
    settings["model"] = deep_copy(TINY)["model"] | {"chat": {}}
    settings["task"] = TINY["task"]
    write_study("tiny", settings)
    with pytest.raises(UserError, match=r"model\.chat: unknown key"):
        load_study("tiny")
