"""Clusterers of rows that are known by their dissimilarities."""
