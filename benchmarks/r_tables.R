# Data frames of R packages as CSV files for `labelled_sets.py`, without loading the packages.
#
#     Rscript benchmarks/r_tables.R FOLDER [LIBRARY ...]
#
# Of lists that hold a matrix of numbers beside a factor, as many rows long, the two make a table.

args <- commandArgs(TRUE)
folder <- args[1]
libraries <- c(args[-1], .libPaths())
dir.create(folder, recursive = TRUE, showWarnings = FALSE)

as_table <- function(value) {
  if (is.data.frame(value)) return(as.data.frame(value))
  if (is.matrix(value) && is.numeric(value)) return(as.data.frame(unclass(value)))
  if (!is.list(value)) return(NULL)
  size <- function(part) if (is.null(dim(part))) length(part) else nrow(part)
  tables <- Filter(function(part) (is.matrix(part) && is.numeric(part)) || is.data.frame(part), value)
  if (length(tables) == 0) return(NULL)
  rows <- nrow(tables[[1]])
  words <- Filter(function(part) (is.factor(part) || is.character(part)) && size(part) == rows, value)
  if (length(words) == 0) NULL else data.frame(as.data.frame(tables[[1]]), words)
}

for (package in list.files(libraries)) {
  found <- tryCatch(data(package = package, lib.loc = libraries)$results[, "Item"], error = function(e) NULL)
  for (item in found) {
    name <- sub(" .*", "", item)
    within <- sub("^.*\\((.*)\\)$", "\\1", item)
    place <- new.env()
    table <- tryCatch({
      suppressWarnings(data(list = within, package = package, lib.loc = libraries, envir = place))
      as_table(get(name, place))
    }, error = function(e) NULL)
    if (is.null(table) || nrow(table) < 60 || nrow(table) > 1e5 || ncol(table) > 300) next
    plain <- vapply(table, function(column) is.null(dim(column)) && is.atomic(column), logical(1))
    table <- table[, plain, drop = FALSE]
    if (ncol(table) < 3) next
    path <- file.path(folder, paste0(package, "-", gsub("[^A-Za-z0-9._]", "_", name), ".csv"))
    tryCatch(write.csv(table, path, row.names = FALSE), error = function(e) NULL)
  }
}
