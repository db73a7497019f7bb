"""The report: figures, tables and one self-contained HTML page; no torch."""
