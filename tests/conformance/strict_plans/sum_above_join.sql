SELECT f.k, sum(f.x * d.y) AS s FROM facts f JOIN dims d ON f.k = d.k GROUP BY f.k
