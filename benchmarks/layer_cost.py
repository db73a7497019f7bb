"""What one GRPO step costs: full, lowest, middle and top layer with onelayer, beside TRL as it comes.

Every variant takes the same step (the same model, prompts, answers' length and thread count) in a process of its own,
several rounds in turn, so that a drift of the machine's speed falls on all alike. Seconds are medians over rounds and
steps; memory is the peak beyond what the process held before training, of the first round.

Use: python benchmarks/layer_cost.py [--rounds 3] [--steps 3] [--write]     (--write puts the table into README.md)
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from sections import write_section

VARIANTS = (
    "TRL as it comes, full",
    "TRL as it comes, middle layer by requires_grad",
    "TRL without checkpointing, full",
    "onelayer, full",
    "onelayer, lowest layer",
    "onelayer, middle layer",
    "onelayer, top layer",
    "onelayer, middle layer, checkpointing",
)
LAYERS, WIDTH, VOCABULARY = 12, 512, 4096
PROMPTS, GROUP, PROMPT_TOKENS, ANSWER_TOKENS = 4, 4, 32, 64
THREADS = 2


def measure(variant: str, steps: int) -> dict[str, Any]:
    """Take a warm-up step and then ``steps`` steps in this process; return seconds of each and peak memory."""
    import torch
    from datasets import Dataset
    from transformers import Qwen3Config, Qwen3ForCausalLM
    from trl import GRPOConfig, GRPOTrainer

    from onelayer.adaptation import apply_adaptation
    from onelayer.grid import Run
    from onelayer.manifest import Meter
    from onelayer.models import make_micro_tokenizer
    from onelayer.rl.grpo import OneLayerGRPOTrainer, grpo_config
    from onelayer.training import Workplace
    from onelayer.training_settings import Training

    torch.set_num_threads(THREADS)
    torch.manual_seed(0)
    characters = "".join(chr(0x4E00 + index) for index in range(VOCABULARY - 2))
    tokenizer = make_micro_tokenizer(characters, 512)
    model = Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=VOCABULARY, hidden_size=WIDTH, intermediate_size=3 * WIDTH, num_hidden_layers=LAYERS,
            num_attention_heads=8, num_key_value_heads=8, head_dim=64, max_position_embeddings=512,
            tie_word_embeddings=True, pad_token_id=0, eos_token_id=1, bos_token_id=None,
        )
    )  # fmt: skip
    draw = torch.randint(0, len(characters), (64, PROMPT_TOKENS), generator=torch.Generator().manual_seed(1))
    prompts = ["".join(characters[index] for index in row) for row in draw.tolist()]

    def reward(completions: list[str], **_: Any) -> list[float]:
        return [float(ord(text[0]) % 2) if text else 0.0 for text in completions]

    layer = {"lowest": 0, "middle": LAYERS // 2, "top": LAYERS - 1}.get(variant.split(", ")[1].split()[0])
    run = Run("layer", "layer", layers=(layer,)) if layer is not None else Run("full", "full")
    names = apply_adaptation(model, run)
    common: dict[str, Any] = {
        "model": model,
        "reward_funcs": reward,
        "train_dataset": Dataset.from_dict({"prompt": prompts}),
        "processing_class": tokenizer,
    }
    with tempfile.TemporaryDirectory() as folder:
        if variant.startswith("TRL"):
            args = GRPOConfig(
                output_dir=folder, loss_type="grpo", max_steps=steps + 1, max_completion_length=ANSWER_TOKENS,
                num_generations=GROUP, per_device_train_batch_size=PROMPTS * GROUP, gradient_accumulation_steps=1,
                learning_rate=1e-6, use_cpu=True, bf16=False, report_to="none", disable_tqdm=True,
                save_strategy="no", **({"gradient_checkpointing": False} if "without" in variant else {}),
            )  # fmt: skip
            trainer: Any = GRPOTrainer(args=args, **common)
        else:
            settings = Training(
                learning_rates=(1e-6,), steps=steps + 1, prompts_per_batch=PROMPTS, group_size=GROUP,
                max_tokens=ANSWER_TOKENS, kl=0.0, gradient_checkpointing="checkpointing" in variant,
            )  # fmt: skip
            workplace = Workplace("benchmark", 0, "run", "0", 1e9)
            args = grpo_config(settings, 1e-6, workplace, "float32")
            args.output_dir = folder
            trainer = OneLayerGRPOTrainer(args=args, trained_names=names, workplace=workplace, **common)

        rollouts, totals = [], []

        def timed(name: str, seconds: list[float]) -> None:
            method = getattr(trainer, name)

            def wrapper(*args: Any, **kwargs: Any) -> Any:
                start = time.perf_counter()
                result = method(*args, **kwargs)
                seconds.append(time.perf_counter() - start)
                return result

            setattr(trainer, name, wrapper)

        timed("_generate_and_score_completions", rollouts)
        timed("training_step", totals)
        ends: list[float] = []
        step = torch.optim.AdamW.step

        def optimizer_step(self: Any, *args: Any, **kwargs: Any) -> Any:
            start = time.perf_counter()
            result = step(self, *args, **kwargs)
            ends.append(time.perf_counter() - start)
            return result

        torch.optim.AdamW.step = optimizer_step  # type: ignore[method-assign]
        resident = next(
            int(line.split()[1]) * 1024
            for line in Path("/proc/self/status").read_text().splitlines()
            if line.startswith("VmRSS:")
        )
        meter = Meter()
        trainer.train()
    training = [total - rollout + end for total, rollout, end in zip(totals, rollouts, ends, strict=True)]
    return {
        "rollout": rollouts[1:],
        "training": training[1:],
        "memory": meter.peak_memory_bytes - resident,
        "parameters": sum(p.numel() for p in model.parameters()),
    }


def main() -> None:
    """Measure every variant and print, or write, the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--write", action="store_true", help="put the table into benchmarks/README.md")
    parser.add_argument("--variant", choices=VARIANTS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.variant:
        print(json.dumps(measure(options.variant, options.steps)))
        return
    found: dict[str, list[dict[str, Any]]] = {variant: [] for variant in VARIANTS}
    for turn in range(options.rounds):
        for variant in VARIANTS:
            print(f"round {turn + 1} of {options.rounds}: {variant}", file=sys.stderr, flush=True)
            command = [sys.executable, __file__, "--variant", variant, "--steps", str(options.steps)]
            result = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            found[variant].append(json.loads(result.stdout.splitlines()[-1]))
    table = render(found)
    print(table)
    if options.write:
        write_section("layer_cost", table)


def render(found: dict[str, list[dict[str, Any]]]) -> str:
    """The table: medians, and each figure's ratio to TRL's full step as it comes."""

    def median(variant: str, part: str) -> float:
        return statistics.median(value for one in found[variant] for value in one[part])

    reference = VARIANTS[0]
    base = {part: median(reference, part) for part in ("rollout", "training")}
    lines = [
        "| variant | rollout s | training s | step s | training ÷ | step ÷ | memory MB | memory ÷ |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for variant in VARIANTS:
        rollout, training = median(variant, "rollout"), median(variant, "training")
        memory = found[variant][0]["memory"]
        lines.append(
            f"| {variant} | {rollout:.2f} | {training:.2f} | {rollout + training:.2f} |"
            f" {training / base['training']:.2f} | {(rollout + training) / sum(base.values()):.2f} |"
            f" {memory / 1e6:.0f} | {memory / found[reference][0]['memory']:.2f} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
