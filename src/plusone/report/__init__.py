"""Reports: what trainings left behind, as one page with tables and figures."""
