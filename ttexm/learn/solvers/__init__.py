"""Solvers: from an objective and a start to a weight tensor; they know no loss by name."""
