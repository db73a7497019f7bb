"""Writing an answer in one way: LaTeX without cosmetics, unicode, Markdown, units and money.

The result is text. What it is worth is for `onelayer.grading.structure` and those below it to find out.
"""

from __future__ import annotations

import re
import unicodedata

_SYMBOLS = {
    **dict.fromkeys("−–—‐‑‒﹣－", "-"),
    **dict.fromkeys("\u00a0\u2002\u2003\u2007\u2009\u200a\u202f\u3000", " "),
    **dict.fromkeys("\u200b\u200c\u200d\u2060\ufeff", ""),
    **dict.fromkeys("⋅·∙•", r"\cdot "),
    **dict.fromkeys("≤⩽", r"\le "),
    **dict.fromkeys("≥⩾", r"\ge "),
    **dict.fromkeys("≈≃", r"\approx "),
    **dict.fromkeys("’‘′", "'"),
    **dict.fromkeys("“”", '"'),
    "×": r"\times ", "÷": r"\div ", "≠": r"\ne ", "±": r"\pm ", "∓": r"\mp ", "∞": r"\infty ", "°": r"^\circ ",
    "∪": r"\cup ", "∩": r"\cap ", "∈": r"\in ", "∅": r"\emptyset ", "ℝ": r"\mathbb{R}", "⟨": r"\langle ",
    "⟩": r"\rangle ", "⁄": "/", "∕": "/", "％": r"\%", "€": r"\text{ euros }", "£": r"\text{ pounds }",
    "，": ",", "（": "(", "）": ")", "∠": r"\angle ",
}  # fmt: skip
_GREEK = re.compile("[α-ωΑ-Ωϵϕ]")
_SUPER = re.compile("[⁰¹²³⁴-⁹⁺⁻ⁿ]+")
_SUB = re.compile("[₀-₉]+")
_ROOT = re.compile(r"√\s*(\([^()]*\)|\{[^{}]*\}|\d+(?:\.\d+)?|[a-zA-Z])")
_VULGAR = re.compile("[¼-¾⅐-⅞]")
# A piece of text within LaTeX.
TEXT = re.compile(
    r"\\(?:text|mbox|mathrm|textbf|textit|textrm|mathbf|textnormal|mathit|operatorname|bf|rm)\s*\{([^{}]*)\}"
)
_COSMETIC = re.compile(
    r"\\(?:left|right|middle|bigg?[lr]?|Bigg?[lr]?|displaystyle|textstyle|limits|nolimits|boldsymbol|mathstrut)"
    r"(?![a-zA-Z])\.?|\\[!,;:> ]|\\(?:qquad|quad|hfill|hspace\{[^{}]*\}|phantom\{[^{}]*\})(?![a-zA-Z])|~"
)
_RENAMED = (
    (re.compile(r"\\[dtc]frac(?![a-zA-Z])"), r"\\frac"),
    (re.compile(r"\\(?:mathbf|vec|mathit|mathsf|bm|hat)\s*\{\s*([A-Za-z])\s*\}"), r"\1"),
    (re.compile(r"\\leq(?:slant)?(?![a-zA-Z])"), r"\\le"),
    (re.compile(r"\\geq(?:slant)?(?![a-zA-Z])"), r"\\ge"),
    (re.compile(r"\\lt(?![a-zA-Z])"), "<"),
    (re.compile(r"\\gt(?![a-zA-Z])"), ">"),
    (re.compile(r"<="), r"\\le "),
    (re.compile(r">="), r"\\ge "),
    (re.compile(r"!=|\\neq(?![a-zA-Z])"), r"\\ne "),
    (re.compile(r"\\(?:bmod|mod|pmod)(?![a-zA-Z])"), r"\\bmod "),
    (re.compile(r"\\lbrace(?![a-zA-Z])"), r"\\{"),
    (re.compile(r"\\rbrace(?![a-zA-Z])"), r"\\}"),
    (re.compile(r"\\(?:lvert|rvert|vert)(?![a-zA-Z])"), "|"),
    (re.compile(r"\\(?:degree|degrees)(?![a-zA-Z])"), r"^\\circ "),
    (re.compile(r"\^\s*\{\s*\\circ\s*\}"), r"^\\circ "),
    (re.compile(r"\\setminus|\\backslash"), r"\\setminus "),
    (re.compile(r"\{\s*,\s*\}"), ","),
    (re.compile(r"\\(?:cdots|ldots|dots)(?![a-zA-Z])|…"), r"\\dots "),
    (re.compile(r"\*\*"), "^"),
)
_WRAPPED = (
    re.compile(r"\*\*(.+)\*\*", re.DOTALL),
    re.compile(r"__(.+)__", re.DOTALL),
    re.compile(r"`+([^`]+)`+"),
    re.compile(r"\$\$(.+)\$\$", re.DOTALL),
    re.compile(r"\\\[(.+)\\\]", re.DOTALL),
    re.compile(r"\\\(((?:(?!\\\().)+)\\\)", re.DOTALL),
    re.compile(r"\"([^\"]+)\""),
)
# Written out or short, a unit is named once; plural forms and powers are dropped before.
_UNIT_NAMES = {
    "$": "dollar", "dollar": "dollar", "usd": "dollar", "cent": "cent", "euro": "euro", "pound": "pound", "lb": "pound",
    "cm": "cm", "centimeter": "cm", "centimetre": "cm", "m": "m", "meter": "m", "metre": "m", "km": "km",
    "kilometer": "km", "kilometre": "km", "mm": "mm", "millimeter": "mm", "millimetre": "mm", "inch": "inch",
    "in": "inch", "foot": "foot", "feet": "foot", "ft": "foot", "yard": "yard", "yd": "yard", "mile": "mile",
    "mi": "mile", "kg": "kg", "kilogram": "kg", "g": "g", "gram": "g", "mg": "mg", "ounce": "ounce", "oz": "ounce",
    "ton": "ton", "second": "second", "sec": "second", "s": "second", "minute": "minute", "min": "minute",
    "hour": "hour", "hr": "hour", "h": "hour", "day": "day", "week": "week", "month": "month", "year": "year",
    "yr": "year", "degree": "degree", "deg": "degree", "%": "%", "percent": "%", "radian": "radian",
    "rad": "radian", "liter": "liter", "litre": "liter", "l": "liter", "ml": "ml", "gallon": "gallon", "mph": "mph",
    "kmh": "kmh", "kph": "kmh", "unit": "unit",
}  # fmt: skip
# Words that make of a number and a word something else than a number with its unit.
_NO_UNIT = frozenset(
    re.findall(
        r"\w+", "is are was not no or and but if to then than mod modulo more less least most any all x y z n k b c"
    )
)
_SHORT = frozenset(("m", "g", "s", "h", "l", "a", ""))
_DEGREES = re.compile(
    r"^((?:(?!\\(?:sin|cos|tan|cot|sec|csc)).)*\S)\s*\^\s*\\circ\s*(?:[CF]|\\text\s*\{\s*[CF]\s*\})?$"
)
_NUMBER_THEN_WORDS = re.compile(
    r"^(.*[\d})!]|.*\\pi)(\s*-?)((?:[A-Za-z][A-Za-z.']*|/)(?:[\s/-]+[A-Za-z][A-Za-z.']*){0,5})\s*(?:\^\s*\{?[23]\}?)?$"
)


def normalize(text: str) -> str:
    """Write an answer in one way; units stay (see `split_unit`)."""
    text = _unicode(printable(text))
    text = _unwrapped(text)
    text = re.sub(r"(?<!\\)\$(?=\s?\d[^$]*$)", r"\\$", text) if text.count("$") == 1 else text
    text = re.sub(r"(?<!\\)\$|\\\(|\\\)|\\\[|(?<!\\)\\\]", " ", text)
    text = re.sub(r"(\d)(?:,\s*\\!\s*|\{,\}|,\s*\\,)(?=\d{3})", r"\1,", text)
    text = _COSMETIC.sub(" ", text.replace("\\\\", "\0")).replace("\0", "\\\\")
    text = re.sub(r"\\(?:text|mbox|mathrm|textbf)\s*\{\s*,?\s*(and|or)\s*,?\s*\}", r" \\\1 ", text)
    text = re.sub(r"(?<![\\A-Za-z]),?\s*\b(and|or)\b(?![A-Za-z])", r" \\\1 ", text)
    for pattern, put in _RENAMED:
        text = pattern.sub(put, text)
    text = _braced(text)
    text = re.sub(r"\s+", " ", text).strip()
    text = re.sub(r"^\\approx\s*", "", text)
    return text.rstrip(".,;:? ").strip()


def printable(text: str) -> str:
    """The text with what no answer holds (control characters, halves of surrogate pairs) replaced by U+FFFD."""
    return re.sub("[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]", "\ufffd", text.replace("\r\n", "\n"))


def split_unit(text: str) -> tuple[str, str | None]:
    """Part a value from its unit: money, percent, degrees, lengths, and the words after a number.

    Returns the value and the unit's one name; None where there is no unit, or one that is not known by name.
    """
    unit = None
    money = re.match(r"^(-?)\s*\\\$\s*(.+)$", text)
    if money:
        text, unit = money.group(1) + money.group(2), "dollar"
    percent = re.match(r"^(.*[^\s\\])\s*\\?%$", text)
    if percent:
        return percent.group(1), "%"
    degrees = _DEGREES.match(text)
    if degrees:
        return degrees.group(1), "degree"
    worded = re.match(r"^(.*[^\s{\\^_])\s*" + TEXT.pattern + r"\s*(?:\^\s*\{?[23]\}?)?$", text)
    if worded and re.search(r"[\dA-Za-z]", worded.group(1)) and not re.search(r"[=+<>]$", worded.group(1).strip()):
        word = worded.group(2).strip()
        if not word or re.fullmatch(r"[A-Za-z\s.'/^\d-]+|\\?%", word):
            return worded.group(1).strip(), _unit_name(word) or unit
    worded = _NUMBER_THEN_WORDS.match(text)
    if worded and re.search(r"\d", worded.group(1)):
        value, gap, words = worded.groups()
        parts = re.split(r"[\s/.-]+", words.lower().strip("./ "))
        known = _unit_name(words)
        # A single letter can be a variable: it is a unit only after a space, and where it is one's name.
        if not _NO_UNIT.intersection(parts) and all(len(part) > 1 or part in _SHORT for part in parts):
            first = parts[0]
            if len(first) > 3 or (gap and len(first) > 1) or (known and (gap or len(words) > 1)):
                return value.strip(), known or unit
    return text, unit


def bare(text: str) -> str:
    """A text without spaces, but for those that tell numbers apart: 1 2 is not 12, nor is 1, 234 the same as 1,234."""
    return re.sub(r"(?<![\d,])\s+|(?<!\d,)(?<=,)\s+|\s+(?!\d)", "", text)


def words_of(text: str) -> str | None:
    """An answer in words (``\\text{Evelyn}``, "an ellipse") in small letters; None where it is anything else."""
    bare = TEXT.sub(r"\1", text)
    bare = re.sub(r"\\(?:and|or|text|mbox|mathrm)(?![a-zA-Z])", lambda match: f" {match.group()[1:]} ", bare)
    bare = re.sub(r"\s+", " ", bare).strip(" .,;:!?'\"()")
    if not re.fullmatch(r"[A-Za-zÀ-ɏ][A-Za-zÀ-ɏ' -]*[A-Za-zÀ-ɏ]", bare) or (bare == text and _is_product(bare)):
        return None
    return re.sub(r"^(?:an?|the) ", "", bare.lower())


def _is_product(bare: str) -> bool:
    """Whether plain letters rather name variables, multiplied, than a word."""
    return all(len(part) == 1 for part in bare.split())


def _unicode(text: str) -> str:
    text = _SUPER.sub(lambda match: "^{" + unicodedata.normalize("NFKC", match.group()).replace("−", "-") + "}", text)
    text = _SUB.sub(lambda match: "_{" + unicodedata.normalize("NFKC", match.group()) + "}", text)
    text = _VULGAR.sub(lambda match: _vulgar(match.group()), text)
    text = _ROOT.sub(lambda match: r"\sqrt{" + match.group(1).strip("(){}") + "}", text)
    text = "".join(_SYMBOLS.get(letter, letter) for letter in text)
    text = _GREEK.sub(lambda match: _greek(match.group()), text)
    return re.sub("[\uff10-\uff5a]", lambda match: unicodedata.normalize("NFKC", match.group()), text)


def _vulgar(letter: str) -> str:
    above, _, below = unicodedata.normalize("NFKC", letter).partition("⁄")
    return rf"\frac{{{above}}}{{{below}}}"


def _greek(letter: str) -> str:
    name = unicodedata.name(letter).rsplit(" ", 1)[-1].lower()
    return "\\" + (name.capitalize() if letter.isupper() else name).replace("lamda", "lambda") + " "


def _unwrapped(text: str) -> str:
    """Take away what stands around the whole: Markdown, formula marks, a box, one pair of braces, full stops."""
    before = None
    while before != text:
        before = text
        text = text.strip().rstrip(".,;: \n").strip()
        for wrapped in _WRAPPED:
            whole = wrapped.fullmatch(text)
            if whole and not (wrapped.pattern.startswith(r"\*") and "**" in whole.group(1)):
                text = whole.group(1)
        if len(text) > 2 and text[0] == text[-1] == "$" and text.count("$") == 2 and text[-2] != "\\":
            text = text[1:-1]
        if len(text) > 2 and text[0] == text[-1] == "*" and text.count("*") == 2:
            text = text[1:-1]
        worded = TEXT.fullmatch(text)
        if worded and re.search(r"\d", worded.group(1)):
            text = worded.group(1)
        whole = re.fullmatch(r"\\(?:boxed|fbox)\s*(\{.*\})|(\{.*\})", text, re.DOTALL)
        if whole:
            inner = whole.group(1) or whole.group(2)
            if _closes_at_end(inner):
                text = inner[1:-1]
    return text


def _closes_at_end(text: str) -> bool:
    depth = 0
    for position, letter in enumerate(text):
        depth += (letter == "{") - (letter == "}")
        if depth == 0:
            return position == len(text) - 1
    return False


def _braced(text: str) -> str:
    """Give fractions, roots, powers and indices their braces: ``\\frac12``, ``\\frac 59``, ``\\sqrt2``, ``x^2``."""
    text = re.sub(r"\\frac\s*([0-9a-zA-Z])\s*([0-9a-zA-Z])", r"\\frac{\1}{\2}", text)
    text = re.sub(r"\\frac\s*([0-9a-zA-Z])\s*(?=\{)", r"\\frac{\1}", text)
    text = re.sub(r"(\\frac\s*\{[^{}]*\})\s*([0-9a-zA-Z])", r"\1{\2}", text)
    text = re.sub(r"\\sqrt\s*([0-9a-zA-Z])", r"\\sqrt{\1}", text)
    text = re.sub(r"\^\s*(-?\d+|[a-zA-Z])", r"^{\1}", text)
    return re.sub(r"_\s*(\d+|[a-zA-Z])", r"_{\1}", text)


def _unit_name(words: str) -> str | None:
    """A unit's one name, without its power."""
    words = re.sub(r"\^?\s*[23]$", "", words.lower()).strip(" .")
    words = re.sub(r"^(?:square|cubic|sq|cu)\.?\s+", "", words)
    for form in (words, words.removesuffix("s"), words.removesuffix("es")):
        if form in _UNIT_NAMES:
            return _UNIT_NAMES[form]
    return None
