"""Self-contained HTML report of a fitted model."""

from egmm.report.page import render_report, write_report
from egmm.report.words import describe

__all__ = ["describe", "render_report", "write_report"]
