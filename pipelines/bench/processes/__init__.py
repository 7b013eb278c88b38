"""The processes that `penstock bench` and `penstock tune` measure in, and what runs in them."""
