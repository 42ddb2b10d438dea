module isolio/libaps

go 1.26.7
