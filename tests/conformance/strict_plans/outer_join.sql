SELECT f.k, f.x, d.k AS dk, d.y FROM facts f FULL JOIN dims d ON f.k = d.k AND f.x < d.y
