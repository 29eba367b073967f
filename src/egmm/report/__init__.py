"""One HTML file that shows a fitted model: works offline, on a phone, in the dark, by keyboard."""

from egmm.report.page import render_report, write_report
from egmm.report.words import describe

__all__ = ["describe", "render_report", "write_report"]
