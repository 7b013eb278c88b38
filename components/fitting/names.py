"""Names in the fitted Transform graph, shared by the code that fits and the code that reads (`fitted.py`)."""

LABEL_VOCABULARY, LABEL_COUNTS = "labels", "label_counts"
LABEL_MEAN, LABEL_DEVIATION = "label_mean", "label_deviation"


def token_vocabulary(place: int) -> str:
    """Returns the vocabulary name of a text column, by its position among the text columns."""
    return f"tokens_{place}"


def category_vocabulary(place: int) -> str:
    """Returns the vocabulary name of a category column, by its position among the category columns."""
    return f"category_{place}"


def mean_of(name: str) -> str:
    """Returns the name of a tensor column's mean."""
    return f"{name}_mean"


def variance_of(name: str) -> str:
    """Returns the name of a tensor column's variance."""
    return f"{name}_variance"
