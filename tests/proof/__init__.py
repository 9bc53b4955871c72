"""Proofs that cut the power, and what is left afterwards."""
