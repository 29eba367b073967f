"""Clusterers of rows given by dissimilarities."""
