"""From Substrait bytes to pipelines: decode, bind, rewrite, cut. Runs nothing."""
