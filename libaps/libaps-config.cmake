# SPDX-License-Identifier: MIT
# find_package(libaps 1.0) makes the target libaps::aps.
if(NOT TARGET libaps::aps)
	find_library(libaps_LIBRARY aps PATHS "${CMAKE_CURRENT_LIST_DIR}/../.." NO_DEFAULT_PATH REQUIRED)
	# lib/cmake/libaps, or lib/<triplet>/cmake/libaps
	find_path(libaps_INCLUDE_DIR aps.h REQUIRED NO_DEFAULT_PATH
		PATHS "${CMAKE_CURRENT_LIST_DIR}/../../../include" "${CMAKE_CURRENT_LIST_DIR}/../../../../include")
	add_library(libaps::aps UNKNOWN IMPORTED)
	set_target_properties(libaps::aps PROPERTIES
		IMPORTED_LOCATION "${libaps_LIBRARY}" INTERFACE_INCLUDE_DIRECTORIES "${libaps_INCLUDE_DIR}")
endif()
