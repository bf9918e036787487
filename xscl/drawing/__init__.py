"""Pictures as SVG: the join graph of a query, the plan, an answer in SQL as a chart.

    svg          a picture: its elements, its size, with or without a style of its own
    queries      a query: the trees of its blocks, the comparisons, the operators
    plans        the plan: m-ops in layers, from the streams to the results
    charts       two columns of numbers; a figure over time; numbers of consecutive days, and
                 events with a duration and an outcome

A picture on a page has the page's colours: its elements have classes, which the
page's style sheet defines.  A picture in a file includes a style of its own.

Architecture: language → 1 shredding → 2 templates → 3 cep_core → delivery; feeds, ingestion
(Spark), service and web around it.
"""
