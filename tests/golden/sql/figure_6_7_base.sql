SELECT
  t.qid,
  b0.doc AS doc1,
  b2.doc AS doc2,
  b0.node1 AS node1,
  b0.node2 AS node2,
  b1.node2 AS node3,
  b2.node1 AS node4,
  b2.node2 AS node5,
  b3.node2 AS node6,
  t.wl
FROM R_T AS t
CROSS JOIN R_bin AS b0
CROSS JOIN R_doc AS d1
CROSS JOIN R_bin AS b1
CROSS JOIN R_doc AS d2
CROSS JOIN R_binW AS b2
CROSS JOIN R_docW AS d4
CROSS JOIN R_binW AS b3
CROSS JOIN R_docW AS d5
CROSS JOIN R_docTS AS ts0
CROSS JOIN R_docTSW AS ts1
WHERE
  b0.pair = t.p0
  AND d1.doc = b0.doc
  AND d1.node = b0.node2
  AND b1.pair = t.p1
  AND b1.doc = b0.doc
  AND b1.node1 = b0.node1
  AND d2.doc = b0.doc
  AND d2.node = b1.node2
  AND b2.pair = t.p2
  AND d4.doc = b2.doc
  AND d4.node = b2.node2
  AND b3.pair = t.p3
  AND b3.doc = b2.doc
  AND b3.node1 = b2.node1
  AND d5.doc = b2.doc
  AND d5.node = b3.node2
  AND ts0.doc = b0.doc
  AND ts1.doc = b2.doc
  AND d1.key = d4.key
  AND d2.key = d5.key
  AND ts0.base <> ts1.base
  AND (
    CASE t.op
      WHEN 0
      THEN ts1.start - ts0.ts
      WHEN 1
      THEN ts1.ts - ts0.ts
      WHEN 2
      THEN ts1.ts - ts0.ts
    END >= t.lower
    AND ts1.ts - ts0.ts <= t.wl
    AND CASE
      WHEN ts0.rank < ts1.rank
      THEN ts1.clock - ts0.ts
      WHEN ts0.rank > ts1.rank
      THEN ts0.clock - ts1.ts
      ELSE GREATEST(ts1.clock - ts0.ts, ts0.clock - ts1.ts)
    END <= t.keep
    AND (
      t.op <> 2 OR ts1.ts - ts0.ts > 0 OR ts0.doc < ts1.doc
    )
  )
