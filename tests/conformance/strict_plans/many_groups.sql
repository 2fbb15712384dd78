SELECT g, sum(x) AS s, count(*) AS n FROM facts GROUP BY g
