"""Strings that a grader of mathematics could choke on, drawn from a seed."""

from __future__ import annotations

import random
import re

_PIECES = (
    *re.findall(
        r"\S+",
        r"\boxed{ \boxed } { \frac{ }{ \frac \sqrt \sqrt{ ^ ^{ _{ ! ( ) [ ] \{ \} 9 99 1 0 2 x y e i n - + * / = < >"
        r" , ; $ $$ \( \) \[ \] \pm \cup \in \le \infty \begin{pmatrix} \end{pmatrix} & \\ \text{ % \% #### ** <think>"
        r" </think> << >> \binom{ \log \sin \cot(x) \tan \sum_{k=1}^{10^9} \int \lim 9^{9^{9}} 10^{1000000}"
        r" (99!)! 1e999999 10^{999} | \left( \right) ~ ' # . 1,000 3x cm C (C) x^{2} \ e^{\pi} \overline{3} 0."
        r" 2.5 170! ° ½ √ ² ∞ 😀",
    ),
    *(" ", "\n", " or ", "A or B", r"\text{ and }", '"', "The answer is ", "answer:", "9" * 50),
    *("\x00", "\ud800", "\udfff", "\u202e"),
)
_REPEATED = ("(", "{", "[", r"\frac{", r"\boxed{", "^{", "$", "x=", "1,", " ", "<think>", "\n", "answer is ", "-", "9",
             r"\sqrt{", "**", "1 or ", "####", r"\pm", "!")  # fmt: skip


def draw(numbers: random.Random) -> str:
    """One string: noise, pieces of LaTeX in a box or a sentence, or one piece repeated thousands of times."""
    kind = numbers.random()
    if kind < 0.08:
        return "".join(chr(numbers.randrange(0x11000)) for _ in range(numbers.randrange(60)))
    text = "".join(numbers.choice(_PIECES) for _ in range(numbers.randrange(1, numbers.choice([4, 8, 16, 40]))))
    if kind < 0.6:
        text = f"\\boxed{{{text}}}"
    elif kind < 0.7:
        text = f"The answer is ${text}$."
    elif kind > 0.985:
        text = numbers.choice(_REPEATED) * numbers.choice([50, 2000, 20000]) + text
    return text
