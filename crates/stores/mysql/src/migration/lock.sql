SELECT GET_LOCK(CONCAT('pillarbox migrates ', MD5(CONCAT_WS('.', COALESCE(?, DATABASE()), ?))), ?)
