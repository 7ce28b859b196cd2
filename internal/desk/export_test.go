package desk

// WeekOf is weekOf, for tests.
var WeekOf = weekOf
