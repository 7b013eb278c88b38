"""The settings page says what the code says."""

from pipelines.docs import settings_page


def test_settings_page_matches_the_settings() -> None:
    """docs/settings.md is up to date; `python -m pipelines.docs.settings_page` rewrites it."""
    assert settings_page.PAGE.read_text(encoding="utf-8") == settings_page.page()
