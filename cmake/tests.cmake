# tests.cmake - what ctest runs. The target `checks` builds all of it.
#
# Labels: unit, law, model, cli, fuzz, style; long is left out by `make check`. C tests run under the
# sanitizers. A test whose source speaks of RETRACE_MODEL runs once more, as compiled for use, with that
# variable naming the real model; one that speaks of RETRACE_LONG has a long run, with that set to 1.
# Python tests run the program under the sanitizers; those marked `model` run as compiled for use, with
# the real model, and so do those marked `long`. A file that names another list of packages than
# tests/requirements.txt runs with these. RETRACE_TINY is the folder of the small models with random weights.

add_custom_target(checks)
set(root ${CMAKE_SOURCE_DIR})
set(model_seconds 1200)

# mentions(OUT FILE WORD): is the word in the file?
function(mentions out file word)
    file(STRINGS ${file} found REGEX ${word} LIMIT_COUNT 1)
    if(found)
        set(${out} ON PARENT_SCOPE)
    else()
        set(${out} OFF PARENT_SCOPE)
    endif()
endfunction()

# add_run(NAME LABELS ENVIRONMENT COMMAND...). libllama's OpenMP threads wait without spinning: beside other
# work on the same cores spinning ones make everything crawl, and tests are not timed.
function(add_run name labels environment)
    add_test(NAME ${name} COMMAND ${ARGN} WORKING_DIRECTORY ${root})
    set_tests_properties(${name} PROPERTIES LABELS "${labels}"
        ENVIRONMENT "OMP_WAIT_POLICY=passive;${environment}")
endfunction()

# A model uses every core by itself: two at once would only hinder each other.
function(add_model_run name labels environment)
    add_run(${name} "${labels}" "${environment}" ${ARGN})
    set_tests_properties(${name} PROPERTIES RUN_SERIAL ON TIMEOUT ${model_seconds})
endfunction()

# ==== Small models with random weights ====

set(tiny ${CMAKE_BINARY_DIR}/tiny)
if(RETRACE_PYTHON AND RETRACE_LLAMA AND EXISTS ${root}/tests/tiny_gguf.py)
    add_run(tiny-models model "" ${RETRACE_PYTHON} tests/tiny_gguf.py ${tiny})
    set_tests_properties(tiny-models PROPERTIES FIXTURES_SETUP tiny)
    set(tiny_environment RETRACE_TINY=${tiny})
endif()

# needs_tiny(TEST SOURCE): runs after the small models were written, if its source speaks of them.
function(needs_tiny test source)
    mentions(tiny_too ${source} RETRACE_TINY)
    if(tiny_too AND tiny_environment)
        set_property(TEST ${test} PROPERTY FIXTURES_REQUIRED tiny)
        set_property(TEST ${test} APPEND PROPERTY ENVIRONMENT ${tiny_environment})
    endif()
endfunction()

# ==== C programs ====

pkg_check_modules(CMOCKA IMPORTED_TARGET cmocka)
# A file with a main is a test; the others help all of them.
file(GLOB sources CONFIGURE_DEPENDS tests/*.c)
list(FILTER sources EXCLUDE REGEX "/tests/drive_[^/]*$")
set(test_sources "")
set(test_support "")
foreach(source IN LISTS sources)
    mentions(program ${source} "^int main\\(")
    if(program)
        list(APPEND test_sources ${source})
    else()
        list(APPEND test_support ${source})
    endif()
endforeach()

# support_library(LIBRARY): what the tests of one variant share, with all that they need.
function(support_library library)
    add_library(${library}_tests STATIC EXCLUDE_FROM_ALL ${test_support})
    target_include_directories(${library}_tests PUBLIC ${root}/src ${root}/tests)
    target_compile_options(${library}_tests PRIVATE ${warnings})
    target_link_libraries(${library}_tests PUBLIC ${library} PkgConfig::CMOCKA)
endfunction()

# c_test_program(NAME LIBRARY FOLDER FILE SOURCE)
function(c_test_program name library folder file source)
    rt_program(${name} ${library}_tests ${folder} ${file} ${source})
    add_dependencies(checks ${name})
endfunction()

function(c_test source)
    get_filename_component(name ${source} NAME_WE)
    set(label unit)
    if(name STREQUAL laws)
        set(label law)
    elseif(name MATCHES "^(models|differential)$")
        set(label model)
    endif()
    c_test_program(${name}_asan libretrace_asan asan/tests ${name} ${source})
    add_run(${name} ${label} "" ${name}_asan)
    needs_tiny(${name} ${source})

    mentions(real ${source} RETRACE_MODEL)
    mentions(long ${source} RETRACE_LONG)
    if(real OR long)
        c_test_program(${name}_use libretrace tests ${name} ${source})
    endif()
    set(model "")
    if(RETRACE_LLAMA AND RETRACE_TEST_MODEL)
        set(model RETRACE_MODEL=${RETRACE_TEST_MODEL})
    endif()
    if(real AND model)
        add_model_run(${name}-real model ${model} ${name}_use)
        needs_tiny(${name}-real ${source})
    endif()
    if(long)
        add_model_run(${name}-long long "RETRACE_LONG=1;${model}" ${name}_use)
        set_tests_properties(${name}-long PROPERTIES TIMEOUT 7200)
        needs_tiny(${name}-long ${source})
    endif()
endfunction()

if(CMOCKA_FOUND AND test_support)
    support_library(libretrace)
    support_library(libretrace_asan)
    foreach(source IN LISTS test_sources)
        c_test(${source})
    endforeach()
else()
    message(STATUS "cmocka is not installed: no C tests")
endif()

# ==== Fuzz targets over their corpus ====

rt_parts(retrace_parts_asan libretrace_asan)
file(GLOB fuzz_sources CONFIGURE_DEPENDS fuzz/fuzz_*.c)
if(NOT RETRACE_HUB)
    list(FILTER fuzz_sources EXCLUDE REGEX "/fuzz_hub\\.c$")
endif()
foreach(source IN LISTS fuzz_sources)
    get_filename_component(name ${source} NAME_WE)
    string(REPLACE fuzz_ "" corpus ${name})
    rt_program(${name} retrace_parts_asan asan/fuzz ${name} ${source} fuzz/driver.c)
    target_include_directories(${name} PRIVATE src fuzz)
    add_dependencies(checks ${name})
    add_run(${name} fuzz "" ${name} ${root}/fuzz/corpus/${corpus})
endforeach()

# ==== The program, from Python ====

# drive_chat plays parts of the program that a Python test gives a terminal to.
if(program_sources AND RETRACE_EDIT)
    set(parts out text cells show screen interrupt)
    list(TRANSFORM parts REPLACE "(.+)" "${root}/cli/\\1.c")
    foreach(part line edit history tty view paint)
        list(APPEND parts ${root}/chat/${part}.c)
    endforeach()
    rt_program(drive_chat libretrace_asan asan/tests drive_chat ${root}/tests/drive_chat.c ${parts})
    target_link_libraries(drive_chat PRIVATE PkgConfig::EDIT)
    add_dependencies(checks drive_chat)
endif()
if(program_sources)
    rt_retrace(retrace_asan libretrace_asan asan)
    rt_retrace(retrace_tsan libretrace_tsan tsan)
    add_dependencies(checks retrace_asan retrace_tsan)
endif()

# What an installation is made of.
add_dependencies(checks libretrace libretrace_shared)
if(TARGET pages)
    add_dependencies(checks pages)
endif()

file(GLOB python_sources CONFIGURE_DEPENDS tests/test_*.py)
# Of what is not built in nothing is tested.
foreach(part SERVER=server HUB=hub EDIT=chat)
    string(REGEX MATCH "^[A-Z]+" option ${part})
    string(REGEX MATCH "[a-z]+$" name ${part})
    if(NOT RETRACE_${option})
        list(FILTER python_sources EXCLUDE REGEX "/test_${name}[^/]*$")
    endif()
endforeach()
set(pytest_flags -m pytest -q -ra -p no:cacheprovider)
set(python_environment PYTHONDONTWRITEBYTECODE=1 RETRACE_BUILD=${CMAKE_BINARY_DIR})
set(asan_environment ${python_environment} RETRACE=$<TARGET_FILE:retrace_asan>)
set(use_environment ${python_environment} RETRACE=$<TARGET_FILE:retrace>
    RETRACE_MODEL=${RETRACE_TEST_MODEL})

# python_of(OUT SOURCE): the Python with the packages that a test names; empty: it is not there.
function(python_of out source)
    set(python ${RETRACE_PYTHON})
    mentions(clients ${source} requirements-clients)
    mentions(lm_eval ${source} requirements-lm-eval)
    if(lm_eval)
        set(python ${RETRACE_PYTHON_LM_EVAL})
    elseif(clients)
        set(python ${RETRACE_PYTHON_CLIENTS})
    endif()
    set(${out} ${python} PARENT_SCOPE)
endfunction()

# A test file runs under the sanitizers; what is marked `model` and `long` in it runs as compiled for
# use; one that speaks of RETRACE_TSAN has a part for the program under the thread sanitizer too.
function(python_test source)
    get_filename_component(name ${source} NAME)
    python_of(python ${source})
    if(NOT python)
        return()
    endif()
    set(pytest ${python} ${pytest_flags})
    add_run(${name} cli "${asan_environment}" ${pytest} ${source})
    needs_tiny(${name} ${source})
    mentions(real ${source} "mark\\.model")
    mentions(long ${source} "mark\\.long")
    mentions(tsan ${source} RETRACE_TSAN)
    if(tsan)
        set_property(TEST ${name} APPEND PROPERTY ENVIRONMENT
            RETRACE_TSAN=$<TARGET_FILE:retrace_tsan>)
    endif()
    if(real AND RETRACE_LLAMA AND RETRACE_TEST_MODEL)
        add_model_run(${name}-real "cli;model" "${use_environment}" ${pytest} -m model
            ${source})
        needs_tiny(${name}-real ${source})
    endif()
    if(long)
        add_model_run(${name}-long "cli;long" "RETRACE_LONG=1;${use_environment}" ${pytest} -m long
            ${source})
        set_tests_properties(${name}-long PROPERTIES TIMEOUT 7200)
    endif()
endfunction()

if(program_sources)
    foreach(source IN LISTS python_sources)
        python_test(${source})
    endforeach()
endif()

# ==== Examples ====

file(GLOB example_sources CONFIGURE_DEPENDS examples/*.c)
foreach(source IN LISTS example_sources)
    get_filename_component(name ${source} NAME_WE)
    rt_program(example_${name} libretrace_asan examples ${name} ${source})
    add_dependencies(checks example_${name})
endforeach()

# ==== The sources themselves ====

find_program(CLANG clang)
find_package(Python3 COMPONENTS Interpreter)
add_run(style style "" ${Python3_EXECUTABLE} scripts/check-style)
add_run(style-core style "" ${Python3_EXECUTABLE} scripts/check-core $<TARGET_FILE:libretrace>)
add_dependencies(checks libretrace)
foreach(compiler ${CMAKE_C_COMPILER} ${CLANG})
    get_filename_component(name ${compiler} NAME)
    add_run(style-headers-${name} style "" scripts/check-headers ${compiler})
    add_run(style-warnings-${name} style "" ${Python3_EXECUTABLE} scripts/check-warnings
        ${CMAKE_BINARY_DIR}/compile_commands.json ${compiler})
endforeach()
if(RETRACE_PYTHON)
    add_run(style-format style "" scripts/format --check)
endif()
