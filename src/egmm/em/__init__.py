"""Expectation-maximisation for evidential mixtures: statistics that add, steps that read only them."""
