DO GET_LOCK(CONCAT('pillarbox takes ', MD5(CONCAT_WS('.', :database, ':prefix'))), :seconds);
