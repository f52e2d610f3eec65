"""Months as dmesg -T, journalctl and syslog write them, by the locale of who exported the log."""

from __future__ import annotations

import polars as pl

# A word of a month: in most languages of Europe letters and maybe a full stop, in Chinese, Japanese
# and Korean its number.
MONTH = r"(?:\p{L}{3,6}\.?|\d{1,2}[月월])"

# Abbreviations (%b) of glibc's and CLDR's locales; languages that share a word agree on its month.
_NAMES = (
    "jan janv ene gen sty oca tammi led ianv",
    "feb febr févr fev lut şub helmi úno",
    "mar mär mrz mars mrt märz márc maalis bře",
    "apr avr avril abr ápr kwi nis huhti dub",
    "may mai mei maj máj mag touko kvě",
    "jun juin juni jún giu cze haz kesä čen",
    "jul juil juli júl lug lip tem heinä čec",
    "aug août ago ağu sie elo srp",
    "sep sept set szept wrz eyl syys zář",
    "oct okt ott out paź eki loka říj",
    "nov lis kas marras",
    "dec déc dez dic des gru ara joulu pro",
)
_NUMBERS = {name: n for n, names in enumerate(_NAMES, 1) for name in names.split()}


def month_number(name: pl.Expr) -> pl.Expr:
    """1 to 12 of a month's word, NULL of another."""
    word = name.str.to_lowercase().str.strip_chars(".")
    spelt = word.replace_strict(_NUMBERS, default=None, return_dtype=pl.Int64)
    return pl.coalesce(spelt, word.str.extract(r"^(\d{1,2})[月월]$").cast(pl.Int64, strict=False))
