"""A schedule for those who have a scheduler: the same `penstock retrain`, in the words of that scheduler."""
