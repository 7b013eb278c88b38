"""Where training runs: devices, workers and their shares of the records, precision, memory."""
