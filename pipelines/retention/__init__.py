"""`penstock gc`: decides what a pipeline still needs, and deletes the rest."""
