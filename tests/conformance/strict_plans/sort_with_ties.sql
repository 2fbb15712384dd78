SELECT k, g, x FROM facts ORDER BY k
