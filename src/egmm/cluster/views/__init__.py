"""Clusterers of rows that are seen in several views."""
