"""The report of a run: facts gathered once, shown as a summary table and as a page.

    metadata store, artifacts ─► gather ─► RunFacts ─► sections (what the page shows) ─► page ─► report.html
                                                                    charts: values in, inline SVG out ─┘

The page is one file that opens offline, runs no script and loads nothing.
"""
