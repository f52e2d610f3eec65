"""Upkeep of a store that lives for months: small files merged, old days dropped, copies, a check-up."""
