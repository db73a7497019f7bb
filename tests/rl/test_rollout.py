from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from transformers import GenerationConfig, Qwen3Config, Qwen3ForCausalLM

from onelayer.rl.rollout import Conversation, Decoding, generate, generate_in_batches, row_seeds

PAD, END = 0, 1


@pytest.fixture(scope="module")
def model() -> Any:
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=40, hidden_size=32, intermediate_size=64, num_hidden_layers=3, num_attention_heads=4,
        num_key_value_heads=2, head_dim=8, max_position_embeddings=64, pad_token_id=PAD, eos_token_id=END,
        bos_token_id=None, initializer_range=0.3,
    )  # fmt: skip
    return Qwen3ForCausalLM(config).eval()


PROMPTS = [[5, 6, 7, 8], [9, 10], [9, 10], [3, 30, 31, 32, 33, 34], [4]]


def decoding(temperature: float | None, limit: int = 12) -> Decoding:
    return Decoding(limit, (END,), PAD, temperature)


def test_greedy_equals_transformers_generate_row_by_row(model: Any) -> None:
    answers = generate(model, PROMPTS, decoding(None), None)
    settings = GenerationConfig(max_new_tokens=12, do_sample=False, pad_token_id=PAD, eos_token_id=END)
    for prompt, answer in zip(PROMPTS, answers, strict=True):
        expected = model.generate(input_ids=torch.tensor([prompt]), generation_config=settings)[0, len(prompt) :]
        assert answer == expected.tolist()


@pytest.mark.parametrize("temperature", [None, 1.0])
@pytest.mark.parametrize("rows_at_once", [1, 2, 4, 5, 99, None])
def test_batches_change_no_answer(model: Any, temperature: float | None, rows_at_once: int | None) -> None:
    seeds = None if temperature is None else row_seeds(len(PROMPTS), "x")
    together = generate(model, PROMPTS, decoding(temperature), seeds)
    assert generate_in_batches(model, PROMPTS, decoding(temperature), seeds, rows_at_once) == together


def test_no_batch_is_larger_than_asked_for(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []

    def counted(model: Any, prompts: Any, *rest: Any) -> Any:
        sizes.append([len(prompt) for prompt in prompts])
        return generate(model, prompts, *rest)

    monkeypatch.setattr("onelayer.rl.rollout.generate", counted)
    generate_in_batches(model, PROMPTS, decoding(1.0), row_seeds(len(PROMPTS), "x"), 2)
    assert sizes == [[1, 2], [2, 4], [6]]  # prompts of like length together


def test_an_answer_does_not_depend_on_the_rows_beside_it(model: Any) -> None:
    seeds = row_seeds(len(PROMPTS), "x")
    together = generate(model, PROMPTS, decoding(1.0, limit=30), seeds)
    alone = [generate(model, [p], decoding(1.0, limit=30), [s])[0] for p, s in zip(PROMPTS, seeds, strict=True)]
    backwards = generate(model, PROMPTS[::-1], decoding(1.0, limit=30), seeds[::-1])[::-1]
    assert together == alone == backwards
    assert len({len(answer) for answer in together}) > 1  # rows ended at different times


def test_answers_end_at_the_end_token_or_the_limit(model: Any) -> None:
    answers = generate(model, PROMPTS * 20, decoding(1.5, limit=25), row_seeds(100, "ends"))
    assert any(answer[-1] == END for answer in answers)
    for answer in answers:
        assert 1 <= len(answer) <= 25
        assert END not in answer[:-1]
        assert answer[-1] == END or len(answer) == 25


def test_tokens_are_drawn_by_their_probabilities(model: Any) -> None:
    draws = 4000
    answers = generate(model, [[5, 6, 7]] * draws, decoding(0.7, limit=1), row_seeds(draws, "many"))
    counts = np.bincount([answer[0] for answer in answers], minlength=40) / draws
    with torch.no_grad():
        chances = torch.softmax(model(input_ids=torch.tensor([[5, 6, 7]])).logits[0, -1] / 0.7, dim=-1).numpy()
    assert np.abs(counts - chances).max() < 4 * np.sqrt(0.25 / draws)


def test_seeds_decide(model: Any) -> None:
    one, same, other = (generate(model, PROMPTS, decoding(1.0), row_seeds(5, name)) for name in ("a", "a", "b"))
    assert one == same
    assert one != other


@pytest.mark.parametrize("temperature", [None, 1.2])
def test_a_conversation_equals_reading_everything_anew_at_every_turn(model: Any, temperature: float | None) -> None:
    """Ragged prompts, answers and replies, and rows that leave: the cache with its holes changes no token."""
    limit, turns = 4, 4
    seeds = row_seeds(len(PROMPTS), "turns")
    talk = Conversation(model, PROMPTS, decoding(temperature, limit), None if temperature is None else seeds, turns)
    rows = list(range(len(PROMPTS)))
    histories = [list(prompt) for prompt in PROMPTS]
    drawn = [0] * len(PROMPTS)
    lengths = set()
    for turn in range(turns):
        answers = talk.write()
        for place, row in enumerate(rows):
            with torch.no_grad():
                expected: list[int] = []
                streams = np.random.Generator(np.random.Philox(seeds[row])).random(limit * turns)
                while len(expected) < limit and END not in expected:
                    logits = model(input_ids=torch.tensor([histories[row] + expected])).logits[0, -1]
                    if temperature is None:
                        expected.append(int(logits.argmax()))
                    else:
                        mass = torch.softmax(logits.double() / temperature, dim=-1).cumsum(-1)
                        point = streams[drawn[row]] * mass[-1]
                        expected.append(int(torch.searchsorted(mass, point, right=True)))
                        drawn[row] += 1
            assert answers[place] == expected, (turn, row)
            lengths.add(len(expected))
            histories[row] += expected
        replies = [[7 + row] * (1 + (row + turn) % 3) for row in rows]
        for row, reply in zip(rows, replies, strict=True):
            histories[row] += reply
        talk.read(replies)
        if turn == 1:
            talk.keep(torch.tensor([0, 2, 3]))
            rows = [0, 2, 3]
    if temperature is not None:
        assert len(lengths) > 1  # rows ended at different times within a turn
