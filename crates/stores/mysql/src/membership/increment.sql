SELECT CAST(@@GLOBAL.auto_increment_increment AS SIGNED)
