"""Expectation-maximisation for evidential mixtures, based on additive statistics."""
