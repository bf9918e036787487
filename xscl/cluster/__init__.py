"""Cells: engines over slices of the subscriptions, which a driver feeds with one sequenced log.

    shared_directory    the files that driver and cells exchange, written once and durably
    sealed_log          the log after sequencing: entries of documents or of controls
    controls            changes of what cells evaluate, as entries of the log
    compacted_controls  what is left of controls behind all snapshots
    placement           the cell of each subscription, and the silent copies of publishers
    grid                the numbers of cells, of slices and groups; the share of a value
    designated_joins    the join by which documents of a subscription are divided, and its group
    document_routing    the cells of the grid to which documents go
    grid_subscriptions  the subscriptions on the grid, as the driver knows them
    catalog_log         changes of the driver's catalog as controls of the log
    cell_assignment     which cells there are, their split and merge
    cell_ancestry       the cells from which a cell was split off
    cell_controls       the controls that a cell knows ahead of their entries
    sequencer           identity, version and clock of documents, once for all cells
    cell_host           one cell: restores its engine, replays the log, answers
    cell_task           the task of a cell for one batch, its answer, its load
    answers             the form of an answer, and the numbers of what a cell has made
    findings            the results of a cell's transactions, collected to an answer
    emission_filter     the results that a cell of the grid answers with
    adoption            answers as results of the driver's engine
    group_results       the results of a group, in the order and with the bound of one engine
    driver              sequence, intent, answers, commit
    cluster_sink        the driver as a consumer's sink
    cell_process        the cells of one Python process
    spark_cells         tasks of cells on the executors of Spark

A cell is an ordinary `Engine`.  It receives the documents of its streams, evaluates them for its
subscriptions, and answers with their results.  The driver's engine has documents and results, and
no state of joins (docs/decisions/104 to 106, 126).

Architecture: language → 1 shredding → 2 templates → 3 cep_core → delivery; feeds, ingestion
(Spark), service and web around it.
"""
