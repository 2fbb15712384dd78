SELECT k, x, sum(x) OVER (PARTITION BY k ORDER BY g, x) AS s FROM facts
