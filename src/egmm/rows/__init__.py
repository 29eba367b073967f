"""Where rows come from: arrays, files, clusters of machines."""
