SELECT
  t.qid,
  v0.doc1 AS doc1,
  v0.doc2 AS doc2,
  v0.above1 AS node1,
  v0.node1 AS node2,
  v1.node1 AS node3,
  v0.above2 AS node4,
  v0.node2 AS node5,
  v1.node2 AS node6,
  t.wl
FROM R_T AS t
CROSS JOIN vj1 AS v0
CROSS JOIN vj1 AS v1
WHERE
  v0.pairs = t.e0
  AND v1.pairs = t.e1
  AND v1.docs = v0.docs
  AND v1.above1 = v0.above1
  AND v1.above2 = v0.above2
  AND (
    CASE t.op WHEN 0 THEN v0.lead WHEN 1 THEN v0.gap WHEN 2 THEN v0.gap END >= t.lower
    AND v0.gap <= t.wl
    AND v0.age <= t.keep
    AND (
      t.op <> 2 OR v0.gap > 0 OR v0.doc1 < v0.doc2
    )
  )
