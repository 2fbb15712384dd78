SELECT f.k, f.x, d.y FROM facts f JOIN dims d ON f.k = d.k
