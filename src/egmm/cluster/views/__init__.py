"""Multi-view clusterers."""
