"""What a person sees of a run: facts gathered once, shown by a summary table and by a page.

    RunFacts (facts) ─► page.render ─► report.html
                            └─► charts: values in, inline SVG out

The page is one file that opens offline, runs no script and loads nothing.
"""
