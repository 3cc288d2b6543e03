SELECT
    (SELECT page_size FROM pragma_page_size) AS page_size,
    (SELECT page_count FROM pragma_page_count) AS pages,
    (SELECT freelist_count FROM pragma_freelist_count) AS free;
