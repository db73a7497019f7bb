"""How a problem is put to the model, and what ends its answer: one place for training and evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jinja2 import TemplateError

from onelayer.errors import UserError
from onelayer.model_settings import Chat


def prompt_tokens(tokenizer: Any, prompts: Sequence[str], chat: Chat | None) -> list[list[int]]:
    """The token ids of prompts, one list each.

    A plain prompt is tokenised with what the tokenizer puts before every text (a begin token, say). In a chat the
    prompt is the user's message, and the template alone says what stands before it, so no begin token comes twice; the
    ids end where the model's turn begins.

    Raises UserError where the tokenizer has no chat template, or it refuses these messages.
    """
    if not prompts:
        return []
    ids: list[list[int]]
    if chat is None:
        ids = tokenizer(list(prompts))["input_ids"]
        return ids
    if not tokenizer.chat_template:
        raise UserError("model.chat: expected a tokenizer with a chat template, found one without")
    system = [] if chat.system is None else [{"role": "system", "content": chat.system}]
    try:
        ids = tokenizer.apply_chat_template(
            [[*system, {"role": "user", "content": prompt}] for prompt in prompts],
            add_generation_prompt=True,
            tokenize=True,
            return_dict=True,
        )["input_ids"]
    except TemplateError as error:
        raise UserError(f"model.chat: the tokenizer's chat template refuses the messages: {error}") from None
    return ids


def stop_ids(tokenizer: Any, stop: Sequence[str]) -> tuple[int, ...]:
    """The ids of further tokens that end an answer.

    Raises UserError where one is not exactly one token of this tokenizer.
    """
    found = []
    vocabulary = tokenizer.get_vocab() if stop else {}
    for index, token in enumerate(stop):
        if token in vocabulary:
            found.append(vocabulary[token])
            continue
        # A token's text need not be its name in the vocabulary: a line's end is written Ċ in byte-level ones.
        ids = tokenizer(token, add_special_tokens=False)["input_ids"]
        pieces = [tokenizer.decode([one], clean_up_tokenization_spaces=False) for one in ids]
        if pieces != [token]:
            raise UserError(f"model.stop[{index}]: expected one token, found {token!r}, which is read as {pieces}")
        found += ids
    return tuple(found)


def end_ids(model: Any, tokenizer: Any, stop: Sequence[str] = ()) -> tuple[int, ...]:
    """Every token that ends an answer: the tokenizer's, those that the model declares, and those of the study."""
    declared = model.generation_config.eos_token_id
    declared = declared if isinstance(declared, list) else [] if declared is None else [declared]
    return tuple(dict.fromkeys([tokenizer.eos_token_id, *declared, *stop_ids(tokenizer, stop)]))
