"""Candidate layouts as columns, constraints, ranking."""
