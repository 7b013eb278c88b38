"""What each command did to a run: run ids, and a file per run that the run itself writes."""
