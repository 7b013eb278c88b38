"""Arrays in .npy and .npz files: their labels, their rows."""
